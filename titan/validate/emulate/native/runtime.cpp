// The emulation without a kernel.
#include "launch.h"
