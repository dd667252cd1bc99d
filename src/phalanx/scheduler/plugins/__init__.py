"""The plugins, one file each. They use the session. No plugin knows another."""
