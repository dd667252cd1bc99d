"""The whole table of rights: every role, every verb, every kind of object."""

from __future__ import annotations

import itertools

import pytest

from phalanx.head.rights.authorize import (
    CLUSTER,
    QUEUE,
    WORK,
    Allowed,
    Asking,
    Denied,
    Object,
    authorize,
)
from phalanx.model.principals import JOB, NODE, UNIX, Principal, Role
from phalanx.model.rights import Verb

ME, OTHER = "ana", "bo"
TABLE = """
verb        object     | viewer  user        queue-admin  operator  admin  job
see         work       | yes     yes         yes          yes       yes    owner
see         queue      | yes     yes         yes          yes       yes    yes
see         cluster    | yes     yes         yes          yes       yes    yes
read        work       | own     own         subtree      yes       yes    children
read        queue      | no      no          subtree      yes       yes    no
read        cluster    | no      no          no           yes       yes    no
submit      work       | no      listed      subtree      yes       yes    listed
change      work       | no      own         subtree      yes       yes    children
change      cluster    | no      no          no           yes       yes    no
raise       work       | no      no          subtree      yes       yes    no
raise       queue      | no      no          subtree      yes       yes    no
operate     queue      | no      no          subtree      yes       yes    no
operate     cluster    | no      no          no           yes       yes    no
administer  queue      | no      no          below        no        yes    no
administer  cluster    | no      no          no           no        yes    no
use         work       | own     own         own          yes       yes    own
use         cluster    | no      yes         yes          yes       yes    yes
"""
"""For each verb and kind of object, the cases in which a person of each column is allowed to use
the verb:

yes and no: always and never. own: the work is the person's own. owner: the work is its owner's, or
a thing without an owner. children: the job itself, or one that it has submitted. listed: the
queue's submit lists name the person. subtree: the person administers the queue or one above it, or
has the right of the column `user`. below: the person administers a queue above this one.
"""
COLUMNS = ("viewer", "user", "queue-admin", "operator", "admin", "job")
ROLE_OF = {
    "viewer": Role.VIEWER,
    "user": Role.USER,
    "queue-admin": Role.USER,
    "operator": Role.OPERATOR,
    "admin": Role.ADMIN,
}
KINDS = {"work": WORK, "queue": QUEUE, "cluster": CLUSTER}


def rows() -> list[tuple[str, str, dict[str, str]]]:
    found = []
    for line in TABLE.strip().splitlines()[1:]:
        left, _, right = line.partition("|")
        verb, kind = left.split()
        found.append((verb, kind, dict(zip(COLUMNS, right.split(), strict=True))))
    return found


def situations(kind: str) -> list[Object]:
    """Return objects of this kind with every combination of the properties that rights depend
    on.
    """
    found = []
    for owner, is_listed, admin, lineage in itertools.product(
        (ME, OTHER, ""), (True, False), ("none", "here", "above"), ((), ("j",), ("k", "j"))
    ):
        is_work = kind == "work"
        if not is_work and (owner or lineage):
            continue
        if kind == "cluster" and (admin != "none" or not is_listed):
            continue
        if is_work and not owner and lineage:
            continue
        found.append(
            Object(
                kind=KINDS[kind],
                name="" if kind == "cluster" else "x",
                owner=owner,
                lineage=lineage,
                path=() if kind == "cluster" else ("root", "lab"),
                submit=(frozenset({"*"}), frozenset({ME if is_listed else OTHER})),
                admin=frozenset(() if admin == "none" else (ME,)),
                admin_above=frozenset((ME,) if admin == "above" else ()),
                priority=1,
                max_priority=0,
            )
        )
    return found


def is_expected(cell: str, column: str, thing: Object) -> bool:
    is_admin = ME in thing.admin and column != "viewer"
    is_own, is_listed = thing.owner == ME, all({ME, "*"} & names for names in thing.submit)
    match cell:
        case "yes":
            return True
        case "no":
            return False
        case "own":
            return is_own
        case "owner":
            return thing.owner in ("", ME)
        case "children":
            return "j" in thing.lineage
        case "listed":
            return is_listed
        case "subtree":
            return is_admin
        case "below":
            return ME in thing.admin_above
    raise AssertionError(cell)


def asking(column: str) -> Asking:
    if column == "job":
        return Asking(Principal(JOB, "j", ME), Role.USER, priority=1)
    return Asking(Principal(UNIX, ME, ME), ROLE_OF[column])


CELLS = [
    pytest.param(verb, kind, column, cells, id=f"{verb}-{kind}-{column}")
    for verb, kind, cells in rows()
    for column in COLUMNS
]


@pytest.mark.parametrize(("verb", "kind", "column", "cells"), CELLS)
def test_the_table(verb: str, kind: str, column: str, cells: dict[str, str]) -> None:
    who = asking(column)
    outcomes = set()
    for thing in situations(kind):
        thing = Object(**{name: getattr(thing, name) for name in thing.__struct_fields__})
        if ME in thing.admin and column in ("user", "viewer", "operator"):
            continue  # that is the column of queue administrators
        expected = is_expected(cells[column], column, thing)
        if column == "queue-admin":
            expected = expected or is_expected(cells["user"], "user", thing)
        if verb == "submit" and column in ("user", "queue-admin") and ME not in thing.admin:
            expected = False  # above the highest priority, which binds users
        decided = authorize(who, Verb(verb), thing)
        assert isinstance(decided, Allowed if expected else Denied), (thing, decided)
        assert decided.rule
        outcomes.add(expected)
    assert outcomes, "the cell was tried"


def test_every_verb_is_in_the_table() -> None:
    assert {verb for verb, _, _ in rows()} | {"join"} == {verb.value for verb in Verb}


def test_only_nodes_join() -> None:
    node = Asking(Principal(NODE, "n1"), Role.USER)
    assert isinstance(authorize(node, Verb.JOIN, Object()), Allowed)
    for column in COLUMNS:
        assert isinstance(authorize(asking(column), Verb.JOIN, Object()), Denied)


@pytest.mark.parametrize(("priority", "is_allowed"), [(0, True), (3, True), (4, False)])
def test_a_user_goes_up_to_the_highest_priority(priority: int, is_allowed: bool) -> None:
    thing = Object(
        kind=WORK,
        owner=ME,
        path=("root", "lab"),
        submit=(frozenset({ME}),),
        priority=priority,
        max_priority=3,
    )
    for verb in (Verb.SUBMIT, Verb.RAISE):
        decided = authorize(asking("user"), verb, thing)
        assert isinstance(decided, Allowed if is_allowed else Denied)
        assert is_allowed or "the highest priority of ana in queue lab is 3" in decided.rule
    assert isinstance(authorize(asking("operator"), Verb.SUBMIT, thing), Allowed)


@pytest.mark.parametrize(("priority", "is_allowed"), [(0, True), (1, True), (2, False)])
def test_a_job_submits_nothing_above_its_own_priority(priority: int, is_allowed: bool) -> None:
    thing = Object(kind=WORK, path=("root", "lab"), submit=(frozenset({ME}),), priority=priority)
    for role in (Role.USER, Role.ADMIN):
        who = Asking(Principal(JOB, "j", ME), role, priority=1)
        decided = authorize(who, Verb.SUBMIT, thing)
        assert isinstance(decided, Allowed if is_allowed else Denied)


def test_a_job_of_an_admin_administers_nothing() -> None:
    who = Asking(Principal(JOB, "j", ME), Role.ADMIN)
    admin = frozenset({ME})
    thing = Object(kind=QUEUE, name="lab", admin=admin, admin_above=admin, path=("root", "lab"))
    for verb in (Verb.RAISE, Verb.OPERATE, Verb.ADMINISTER):
        assert isinstance(authorize(who, verb, thing), Denied)


@pytest.mark.parametrize(
    ("lists", "names", "is_allowed"),
    [
        ((), (), False),
        (("*",), (), True),
        (("ana",), (), True),
        (("unix:ana",), (), True),
        (("token:ana",), (), False),
        (("an",), (), False),
        (("anabel",), (), False),
        (("@ml",), ("ml",), True),
        (("@ml",), ("mle",), False),
        (("ana", "bo"), (), False),
        (("bo", "*"), (), False),
        (("*", "ana"), (), True),
    ],
)
def test_lists_below_only_narrow(
    lists: tuple[str, ...], names: tuple[str, ...], is_allowed: bool
) -> None:
    who = Asking(Principal(UNIX, ME, ME, names), Role.USER)
    submit = tuple(frozenset({one}) for one in lists)
    thing = Object(kind=WORK, path=("root", "lab"), submit=submit)
    assert isinstance(authorize(who, Verb.SUBMIT, thing), Allowed if is_allowed else Denied)


def test_a_token_acts_in_its_queues_and_those_below() -> None:
    everybody = frozenset({"*"})
    for role, verb in itertools.product((Role.USER, Role.OPERATOR, Role.ADMIN), (Verb.SUBMIT,)):
        who = Asking(Principal("token", "ci", "ci"), role, queues=("lab",))
        for path, is_allowed in (
            (("root", "lab"), True),
            (("root", "lab", "night"), True),
            (("root", "labs"), False),
            (("root",), False),
        ):
            thing = Object(kind=WORK, path=path, submit=(everybody,))
            decided = authorize(who, verb, thing)
            assert isinstance(decided, Allowed if is_allowed else Denied), (role, path)
