//! Folds against streams and rebuilds.
