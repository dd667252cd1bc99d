"""The web page of a cluster, served by a process of its own.

`watch` asks the head; `pages` make the data of pages from its answers, without a clock or a socket;
`rendering` writes pages as HTML and finds what has changed; `guard`, `wire` and `login` keep
strangers out; `app` has the routes, and `serve` is the process. See `README.md` in this folder.
"""
