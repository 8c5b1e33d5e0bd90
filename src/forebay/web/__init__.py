"""What every HTTP surface of Forebay shares: errors, bodies, request ids, disconnects, streams, running a server."""
