"""What operators do about dead letters: choose, look, redrive, discard, park, release. Every word of theirs is audited.

ways.py     what redriving a letter means; pure
desk.py     choosing letters, marks and audit, in PostgreSQL
reading.py  bytes of letters and records, from the log
redrive.py  the steps, so that twice is once wherever they were broken off
rereading.py  a record that a projection could not apply, folded at its own position
"""

from __future__ import annotations
