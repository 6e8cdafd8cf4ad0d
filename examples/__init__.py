"""Programs that use the operators the way training code does."""
