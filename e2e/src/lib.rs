//! Local control planes, scenario tests, fault tests, benchmarks and the demo.
