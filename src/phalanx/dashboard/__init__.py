"""The web page of a cluster, served by a process of its own.

`watch` asks the head. `pages` makes the data of pages from the head's answers, without a clock or a
socket. `rendering` writes pages as HTML, and finds the parts that have changed. `guard`, `wire` and
`login` keep strangers out. `app` has the routes, and `serve` is the process. See `README.md` in
this folder.
"""
