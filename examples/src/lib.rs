//! Programs that show flow at work.
