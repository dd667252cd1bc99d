"""The types of calls, for type checkers: the arguments of a function, and the result of a call.

An argument may be a value or a reference to a value. These types express that for the first five
positional parameters. For keyword parameters no type can express that, because Python has no way to
split a function's parameters by name in a type.
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
    """The type of `f.remote`: it takes the arguments of `f`, and returns `R_co`."""

    # One overload for each position of the last argument that is a reference. Mypy checks the
    # arguments after it; pyright checks those before it, and the type of the reference too.
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
    """The attribute `remote` of a function that returns `R_co`; a call of `remote` returns a
    reference or a generator.

    The first overload is for a result of type Any, for which a call may return either.
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
    """A class that `remote` takes, described by its constructor's parameters. The class itself
    cannot be named here, because Pyright does not accept that.
    """

    @property
    def __mro__(self) -> tuple[type, ...]: ...
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co: ...


class MethodOfActor(Generic[P, R]):
    """A method of an `ActorProxy`. Only its type is declared here: each engine has its own
    methods.
    """

    remote: Remote[P, R]

    def options(self, **options: Any) -> MethodOfActor[P, Any]:
        """Return the method with other options, which apply to the calls made through the returned
        method.
        """
        raise NotImplementedError

    def __call__(self, instance: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        raise NotImplementedError


class Method(Protocol[P, R]):
    """The result of `@method`: callable on an instance, with `remote` on the class."""

    @overload
    def __get__(self, instance: None, owner: Any = None, /) -> MethodOfActor[P, R]: ...
    @overload
    def __get__(self, instance: object, owner: Any = None, /) -> Callable[P, R]: ...


class MethodDecorator(Protocol):
    """The type of `@method(concurrency_group="io")`, a decorator."""

    def __call__(self, function: Callable[Concatenate[Any, P], R], /) -> Method[P, R]: ...


class ManyMethodDecorator(Protocol):
    """The type of `@method(num_returns=2)`: type checkers cannot know what such a call returns."""

    def __call__(self, function: Callable[Concatenate[Any, P], Any], /) -> Method[P, Any]: ...
