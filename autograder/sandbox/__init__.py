"""Student code behind a socket: it answers "call f with these arrays" and is told nothing else.

`wire` is the protocol, `client` and `proxy` the trusted end, `zygote`, `jail` and `server` the other.
The other end is a program of its own that never imports a spec, a test or a reference solution.
"""
