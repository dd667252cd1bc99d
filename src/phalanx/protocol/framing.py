"""The sizes of frames. `frames` makes and reads them."""

from __future__ import annotations

HEADER_BYTES = 4
"""The bytes before a frame's body: its length."""
MAX_FRAME_BYTES = 1 << 30
"""The most bytes of a frame's body."""
STRANGERS_FRAME_BYTES = 4 << 20
"""The most bytes of the frame in which a peer introduces itself."""
