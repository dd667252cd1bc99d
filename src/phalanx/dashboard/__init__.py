"""The web page: a process beside the head that asks it now and then, and shows what it said.

`watch` asks; `pages` turn answers into what a page shows, without a clock or a socket; `rendering`
writes that as HTML and tells what has changed since; `guard`, `wire` and `login` keep strangers
out; `app` has the routes, `serve` the process.
"""
