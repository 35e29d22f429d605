"""The local stack: Valkey, inference node, API and site under a supervisor that restarts what dies."""
