"""Open-loop load over HTTP by a process of its own: `client.offer` sends a schedule and gives the answers."""
