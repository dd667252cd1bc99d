"""The sizes of frames. `frames` makes and reads them."""

from __future__ import annotations

HEADER_BYTES = 4
"""The number of bytes before a frame's body, which give its length."""
MAX_FRAME_BYTES = 1 << 30
"""The largest size of a frame's body in bytes."""
STRANGERS_FRAME_BYTES = 4 << 20
"""The largest size in bytes of the frame in which a peer introduces itself."""
