"""From tile programs to source: tiles, pipelines, emission."""
