"""Pure rules of playback: what a report means. No I/O, no clock, no logging."""
