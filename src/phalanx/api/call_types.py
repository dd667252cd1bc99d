"""What type checkers know of calls: arguments as the function takes them, and what comes back.

An argument may be a reference to a value as well. Positions can say so, here the first five; a
keyword cannot, as no type takes the parameters of a function apart by name.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, Protocol, TypeVar, overload

from phalanx.objects.reference import ObjectRef
from phalanx.objects.streams import ObjectRefGenerator

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
R_co = TypeVar("R_co", covariant=True)
T_co = TypeVar("T_co", covariant=True)


class RemoteCall(Protocol[P, R_co]):
    """`f.remote`: takes what `f` takes, and gives `R_co`."""

    # By the position of the last argument that is a reference. Mypy looks at what comes after it,
    # pyright at those before it and at the reference's type as well.
    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(
        self: RemoteCall[Concatenate[A, Q], R_co],
        a: ObjectRef[A],
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> R_co: ...
    @overload
    def __call__(
        self: RemoteCall[Concatenate[A, B, Q], R_co],
        a: A | ObjectRef[Any],
        b: ObjectRef[B],
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> R_co: ...
    @overload
    def __call__(
        self: RemoteCall[Concatenate[A, B, C, Q], R_co],
        a: A | ObjectRef[Any],
        b: B | ObjectRef[Any],
        c: ObjectRef[C],
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> R_co: ...
    @overload
    def __call__(
        self: RemoteCall[Concatenate[A, B, C, D, Q], R_co],
        a: A | ObjectRef[Any],
        b: B | ObjectRef[Any],
        c: C | ObjectRef[Any],
        d: ObjectRef[D],
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> R_co: ...
    @overload
    def __call__(
        self: RemoteCall[Concatenate[A, B, C, D, E, Q], R_co],
        a: A | ObjectRef[Any],
        b: B | ObjectRef[Any],
        c: C | ObjectRef[Any],
        d: D | ObjectRef[Any],
        e: ObjectRef[E],
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> R_co: ...
    @overload
    def __call__(
        self,
        a: ObjectRef[Any],
        b: ObjectRef[Any],
        c: ObjectRef[Any],
        d: ObjectRef[Any],
        e: ObjectRef[Any],
        f: ObjectRef[Any],
        /,
        *more: ObjectRef[Any],
    ) -> R_co: ...


class Remote(Protocol[P, R_co]):
    """The attribute `remote` of what returns `R_co`: a reference, or a generator of references.

    The first form is for a result of type Any: it may be either.
    """

    @overload
    def __get__(
        self: Remote[P, NoReturn], instance: Any, owner: Any = None, /
    ) -> RemoteCall[P, Any]: ...
    @overload
    def __get__(
        self: Remote[P, Generator[T, Any, Any]], instance: Any, owner: Any = None, /
    ) -> RemoteCall[P, ObjectRefGenerator[T]]: ...
    @overload
    def __get__(
        self: Remote[P, AsyncGenerator[T, Any]], instance: Any, owner: Any = None, /
    ) -> RemoteCall[P, ObjectRefGenerator[T]]: ...
    @overload
    def __get__(
        self: Remote[P, Coroutine[Any, Any, T]], instance: Any, owner: Any = None, /
    ) -> RemoteCall[P, ObjectRef[T]]: ...
    @overload
    def __get__(self, instance: Any, owner: Any = None, /) -> RemoteCall[P, ObjectRef[R_co]]: ...


class ClassCallable(Protocol[P, T_co]):
    """A class, by what its constructor takes. Pyright does not take a class for one."""

    @property
    def __mro__(self) -> tuple[type, ...]: ...
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co: ...


class MethodOfActor(Generic[P, R]):
    """A method as an `ActorProxy` has it: declared only, as each engine has methods of its own."""

    remote: Remote[P, R]

    def options(self, **options: Any) -> MethodOfActor[P, Any]:
        """See ActorMethod."""
        raise NotImplementedError

    def __call__(self, instance: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        raise NotImplementedError


class Method(Protocol[P, R]):
    """What `@method` makes of a method: callable on an instance, `remote` by the class."""

    @overload
    def __get__(self, instance: None, owner: Any = None, /) -> MethodOfActor[P, R]: ...
    @overload
    def __get__(self, instance: object, owner: Any = None, /) -> Callable[P, R]: ...


class MethodDecorator(Protocol):
    """What `@method(concurrency_group="io")` gives."""

    def __call__(self, function: Callable[Concatenate[Any, P], R], /) -> Method[P, R]: ...


class ManyMethodDecorator(Protocol):
    """What `@method(num_returns=2)` gives: only whoever calls knows what comes back."""

    def __call__(self, function: Callable[Concatenate[Any, P], Any], /) -> Method[P, Any]: ...
