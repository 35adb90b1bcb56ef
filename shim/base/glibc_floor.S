// Functions of glibc that got a new version when they moved from libpthread and libdl into libc (2.34), though nothing
// of them had changed. All calls of ours, those of the static libraries included, go to the oldest version, so that the
// library loads on any glibc since 2.28.
#if defined(__x86_64__)
#define OLDEST 2.2.5
#else
#define OLDEST 2.17
#endif
        .macro OLD name, version
        .text
        .globl  \name
        .hidden \name
        .type   \name, %function
        .p2align 4
\name:
#if defined(__x86_64__)
        endbr64
        jmp     *ncclwatch_old_\name@GOTPCREL(%rip)
        .symver ncclwatch_old_\name, \name@GLIBC_\version
#else
        hint    #34
        adrp    x16, :got:ncclwatch_old_\name
        ldr     x16, [x16, :got_lo12:ncclwatch_old_\name]
        br      x16
        .symver ncclwatch_old_\name, \name@GLIBC_\version
#endif
        .size   \name, .-\name
        .endm

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
