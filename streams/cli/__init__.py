"""The command ``playhead``: one module for each sub-command, wired together in ``app``."""
