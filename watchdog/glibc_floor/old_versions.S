// Functions of glibc that got a new version when they moved from libpthread and libdl into libc (2.34), though nothing
// of them had changed. All calls of ours, those of the static libraries included, go to the oldest version, so that the
// library loads on any glibc since 2.28.
#include "watchdog/glibc_floor/old_version.h"

        OLD     dladdr, OLDEST
        OLD     dlclose, OLDEST
        OLD     dlerror, OLDEST
#if defined(__x86_64__)
        OLD     dlinfo, 2.3.3
#else
        OLD     dlinfo, OLDEST
#endif
        OLD     dlopen, OLDEST
        OLD     pthread_attr_setstacksize, OLDEST
        OLD     pthread_create, OLDEST
        OLD     pthread_detach, OLDEST
        OLD     pthread_getspecific, OLDEST
        OLD     pthread_join, OLDEST
        OLD     pthread_key_create, OLDEST
        OLD     pthread_key_delete, OLDEST
        OLD     pthread_once, OLDEST
        OLD     pthread_rwlock_rdlock, OLDEST
        OLD     pthread_rwlock_unlock, OLDEST
        OLD     pthread_rwlock_wrlock, OLDEST
        OLD     pthread_setspecific, OLDEST
        .section .note.GNU-stack, "", %progbits
