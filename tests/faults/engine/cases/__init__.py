"""The programme, in the order in which it is run. A module a kind; importing them registers their cases."""

from . import kills, members, agents, state, logs, offsets, brokers  # noqa: F401, I001  the order is the programme's
