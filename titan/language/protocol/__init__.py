"""Who may touch which stage when: the protocol level, its checker and the construction of it."""
