// Likewise (old_versions.S) what the injected library does not call.
#include "watchdog/glibc_floor/old_version.h"

        OLD     __pthread_key_create, OLDEST
        OLD     dlsym, OLDEST
#if defined(__x86_64__)
        OLD     pthread_condattr_setclock, 2.3.3
#else
        OLD     pthread_condattr_setclock, OLDEST
#endif
        OLD     pthread_rwlock_destroy, OLDEST
        OLD     pthread_rwlock_init, OLDEST
        OLD     pthread_rwlock_tryrdlock, OLDEST
        OLD     pthread_rwlock_trywrlock, OLDEST
#if defined(__x86_64__)
        OLD     pthread_setname_np, 2.12
#else
        OLD     pthread_setname_np, OLDEST
#endif
        .section .note.GNU-stack, "", %progbits
