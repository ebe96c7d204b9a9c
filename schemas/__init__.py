"""The contract between producers and consumers: topics, events, wire format and placement.

Imports nothing of the rest of Playhead, so a producer in another code base can vendor this package alone.
"""
