"""Rights: one place decides for every request whether its asker may make it."""
