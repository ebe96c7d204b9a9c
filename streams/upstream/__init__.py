"""How to talk to a media server: read here, nothing decided."""
