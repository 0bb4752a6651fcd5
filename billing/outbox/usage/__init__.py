"""Usage as CloudEvents: booking order cut into batches, one cursor an endpoint."""
