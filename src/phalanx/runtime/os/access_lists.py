"""Access lists of files (acl(5)). With them, one more account may use a file of this process's
account.
"""

from __future__ import annotations

import os
import struct

READ, WRITE, ENTER = 4, 2, 1
_ACCESS, _DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
_VERSION, _NOBODY = 2, 0xFFFF_FFFF
_OWNER, _USER, _GROUP, _MASK, _OTHERS = 1, 2, 4, 16, 32
_ALL = READ | WRITE | ENTER


def let(target: str | int, uid: int, may: int, is_directory: bool = False) -> None:
    """Give the account `uid` the rights `may` on a file of this process's account, and take all
    rights from other accounts.

    `target`: the path or descriptor of the file. Raises OSError if the file system has no access
    lists.
    """
    mine = _ALL if is_directory else READ | WRITE
    os.setxattr(target, _ACCESS, _list(mine, {uid: may}))


def let_both_use_all_below(target: str, uid: int) -> None:
    """Let the account `uid` use the directory `target`. Both that account and this process's
    account may use everything that is made below the directory later.
    """
    both = {uid: _ALL, os.getuid(): _ALL}
    os.setxattr(target, _DEFAULT, _list(_ALL, both))
    let(target, uid, _ALL, is_directory=True)


def _list(owner: int, users: dict[int, int]) -> bytes:
    entries = [(_OWNER, owner, _NOBODY)]
    entries += [(_USER, may, uid) for uid, may in sorted(users.items())]
    entries += [(_GROUP, 0, _NOBODY), (_MASK, _ALL, _NOBODY), (_OTHERS, 0, _NOBODY)]
    return struct.pack("<I", _VERSION) + b"".join(struct.pack("<HHI", *one) for one in entries)
