"""The whole of Playhead under faults: real services, real processes, an oracle that trusts none of them."""
