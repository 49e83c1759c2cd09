// A libcuda.so.1 without a single function of the driver (install_test.cc).
extern "C" int BeamlineDriverStandIn() { return 0; }
