//! Label keys and values.
