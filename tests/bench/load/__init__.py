"""Load over HTTP by a process of its own, open loop or closed: `client.offer` sends it and gives the answers."""
