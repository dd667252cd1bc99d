"""The rights of people on every way to the head: Python, sockets, commands, Slurm's, the page, and
the commands of another machine with a token.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest
from tests.system.people import cells
from tests.system.people.conftest import SharedMachine, accounts, shared_machine
from tests.system.people.test_login import Laptop, own_address

pytestmark = pytest.mark.slow
PERSONS = ("viewer", "user", "queue-admin", "operator", "admin", "job")
TABLE = """
verb         | viewer  user  queue-admin  operator  admin  job
see          | yes     yes   yes          yes       yes    yes
logs         | no      no    yes          yes       yes    no
submit       | no      yes   yes          yes       yes    yes
raise        | no      no    yes          yes       yes    no
change       | no      no    yes          yes       yes    no
drain        | no      no    no           yes       yes    no
reserve      | no      no    no           yes       yes    no
open queue   | no      no    yes          yes       yes    no
create queue | no      no    no           no        yes    no
set role     | no      no    no           no        yes    no
"""
EXPECTED = {
    line.partition("|")[0].strip(): dict(
        zip(PERSONS, [word == "yes" for word in line.partition("|")[2].split()], strict=True)
    )
    for line in TABLE.strip().splitlines()[1:]
}

NOT_OF_JOBS = ("page", "token")
"""The ways to the head that are not tried from inside a job. A page that a job starts acts for the
account of its node, and a token belongs to a person.
"""
CELLS = [
    (way, one) for way in cells.WAYS for one in PERSONS if one != "job" or way not in NOT_OF_JOBS
]
"""All pairs of a way and a person that are tried."""
TOKEN_ROLES = {"queue-admin": "user"}


@pytest.fixture(scope="module")
def shared() -> Iterator[SharedMachine]:
    """Yield a shared cluster that other machines reach over TLS."""
    yield from shared_machine("--host", own_address())


@pytest.fixture(scope="module")
def laptops(shared: SharedMachine) -> Iterator[dict[str, Laptop]]:
    """A machine without a node for each person with a token."""
    found = {person: Laptop() for person in PERSONS if person != "job"}
    pin = shared.done("whoami").splitlines()[1].rpartition(" ")[2]
    address = str(shared.status()["address"])
    try:
        for person, laptop in found.items():
            role = TOKEN_ROLES.get(person, person)
            token = shared.done("token", "create", person, "--role", role).strip()
            said = laptop.typed(token, "login", address, "--fingerprint", pin)
            assert said.returncode == 0, said.stderr
        yield found
    finally:
        for laptop in found.values():
            laptop.end()


@pytest.fixture(scope="module")
def matrix(
    shared: SharedMachine, laptops: dict[str, Laptop]
) -> Iterator[dict[str, dict[str, dict[str, bool]]]]:
    """Yield, for each person, way and verb, whether the request was allowed."""
    if len(accounts()) < 4:
        pytest.skip("the machine lacks four accounts that own nothing")
    person_of = dict(zip(("viewer", "user", "queue-admin", "operator"), accounts(), strict=True))
    user, admin = person_of["user"], person_of["queue-admin"]
    submit, admins = f"{user},{admin},token:user,token:queue-admin", f"{admin},token:queue-admin"
    shared.done("queue", "create", "lab", "--submit", submit, "--admin", admins)
    for person in ("viewer", "operator"):
        shared.done("set-role", person_of[person], person)
    for person in PERSONS:
        for way in cells.WAYS:
            name = f"of-root-{way}-{person}"
            shared.done("run", "-d", "--hold", "--name", name, "-q", "lab", "--", "true")
    node = shared.nodes()["first"]["node_id"]
    found: dict[str, dict[str, dict[str, bool]]] = {person: {} for person in PERSONS}
    for way, person in CELLS:  # a process for each, so that no way waits for another one
        account = person_of.get(person, user)
        laptop = laptops[person] if way == "token" else None
        found[person] |= outcome_of(shared, person, account, node, way, laptop)
        shared.done("undrain", node)
    yield found


def outcome_of(
    shared: SharedMachine,
    person: str,
    account: str,
    node: str,
    way: str,
    laptop: Laptop | None,
) -> dict[str, dict[str, bool]]:
    """Return for one person, by way and verb, whether the request was allowed."""
    words = (cells.__file__, person, node, way)
    if person == "job":
        script = " ".join([sys.executable, *words])
        name = f"tries-{way}"
        shared.said(account, "run", "--name", name, "-q", "lab", "--", "sh", "-c", script)
        text = shared.said(account, "logs", name)
    elif laptop is not None:
        text = laptop.python(f"import runpy, sys; {RUN}", *words).stdout
    elif person == "admin":
        text = shared.python(f"import runpy, sys; {RUN}", *words).stdout
    else:
        ended = shared.as_user(account, *words, code=f"import runpy, sys; {RUN}")
        text = ended.stdout
        assert "outcome" in text, ended.stderr
    line = next(line for line in text.splitlines() if line.startswith("outcome "))
    outcome: dict[str, dict[str, bool]] = json.loads(line.removeprefix("outcome "))
    return outcome


RUN = "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


@pytest.mark.parametrize(("way", "person"), CELLS)
def test_each_cell_on_each_way(
    matrix: dict[str, dict[str, dict[str, bool]]], way: str, person: str
) -> None:
    seen = matrix[person][way]
    assert seen == {verb: EXPECTED[verb][person] for verb in seen}
    is_unseen = (way, person) == ("slurm", "job")  # squeue does not show it that job's number
    assert len(seen) >= (3 if is_unseen or way == "page" else 5), seen
