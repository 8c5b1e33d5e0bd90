"""TCP ports of the loopback interface."""

import socket


def free_port() -> int:
    """A port that nothing listens on at the moment, for servers that cannot choose one themselves."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
