// Named as a part of MPI is, and ends the process as MPI does over an error.
#include <unistd.h>

extern "C" [[gnu::visibility("default")]] void MPI_Ends() { _exit(5); }
