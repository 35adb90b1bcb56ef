// Likewise (old_versions.S) of libm, which not all that is injected is linked with.
#include "watchdog/glibc_floor/old_version.h"

        OLD     exp, OLDEST
        OLD     log, OLDEST
        OLD     log2, OLDEST
        OLD     pow, OLDEST
        .section .note.GNU-stack, "", %progbits
