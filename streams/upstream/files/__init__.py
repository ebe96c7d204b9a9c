"""A folder tree of media files: listed by descriptors, read with care."""
