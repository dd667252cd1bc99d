"""The users of this machine. Slurm's commands accept names and numbers of users."""

from __future__ import annotations

import grp
import pwd
from functools import lru_cache


@lru_cache(maxsize=1_000)
def account_of(user: str) -> pwd.struct_passwd | None:
    """Return the account of a user name; None if this machine has no such account."""
    try:
        return pwd.getpwnam(user)
    except KeyError:
        return None


@lru_cache(maxsize=1_000)
def group_name(number: int) -> str:
    """Return a group's name, or its number if it has no name."""
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def user_names(words: set[str]) -> set[str]:
    """Return the names of users. Each word is a name or a number."""
    found = set(words)
    for word in words:
        if word.isdecimal():
            try:
                found.add(pwd.getpwuid(int(word)).pw_name)
            except (KeyError, OverflowError):
                continue
    return found


def fields_of(user: str) -> dict[str, str]:
    """Return the fields with a user's number and group, if this machine knows the user."""
    account = account_of(user)
    if account is None:
        return {}
    group = group_name(account.pw_gid)
    return {"uid": str(account.pw_uid), "gid": str(account.pw_gid), "group": group}
