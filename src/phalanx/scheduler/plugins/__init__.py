"""The plugins, one file each. They use the session and know no other plugin."""
