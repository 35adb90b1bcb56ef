// dlsym(handle, name): "nccl...", but not "ncclw...", goes to ncclwatch_answer, "cuM..." and "cuG..." to ncclwatch_answer_cuda, which may
// leave it to the C library (-1). Everything else, and RTLD_NEXT, is a tail jump to the C library's dlsym with x0, x1 and
// the link register as they came, so that it sees our caller as its own.
        .text
        .globl  dlsym
        .type   dlsym, %function
        .p2align 4
dlsym:
        .cfi_startproc
        hint    #34                     // bti c
        cmn     x0, #1                  // RTLD_NEXT
        b.eq    .Lpass
        cbz     x1, .Lpass
        ldrb    w9, [x1]                // byte by byte: the name may end before a word of it is read
        cmp     w9, #'n'
        b.ne    .Lcuda
        ldrb    w9, [x1, #1]
        cmp     w9, #'c'
        b.ne    .Lpass
        ldrb    w9, [x1, #2]
        cmp     w9, #'c'
        b.ne    .Lpass
        ldrb    w9, [x1, #3]
        cmp     w9, #'l'
        b.ne    .Lpass
        ldrb    w9, [x1, #4]
        cmp     w9, #'w'                // our own functions
        b.eq    .Lpass
        b       ncclwatch_answer
.Lcuda:
        cmp     w9, #'c'
        b.ne    .Lpass
        ldrb    w9, [x1, #1]
        cmp     w9, #'u'
        b.ne    .Lpass
        ldrb    w9, [x1, #2]
        cmp     w9, #'M'
        b.eq    .Lask
        cmp     w9, #'G'
        b.ne    .Lpass
.Lask:
        stp     x29, x30, [sp, #-32]!
        .cfi_adjust_cfa_offset 32
        .cfi_offset 29, -32
        .cfi_offset 30, -24
        stp     x0, x1, [sp, #16]
        mov     x2, x30                 // the caller
        bl      ncclwatch_answer_cuda
        mov     x9, x0
        ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #32
        .cfi_restore 29
        .cfi_restore 30
        .cfi_adjust_cfa_offset -32
        cmn     x9, #1
        b.eq    .Lpass
        mov     x0, x9
        ret
.Lpass:
        adrp    x16, ncclwatch_real_dlsym
        add     x16, x16, :lo12:ncclwatch_real_dlsym
        ldar    x16, [x16]
        cbz     x16, .Lfind
        br      x16
.Lfind:
        stp     x29, x30, [sp, #-32]!
        .cfi_adjust_cfa_offset 32
        .cfi_offset 29, -32
        .cfi_offset 30, -24
        stp     x0, x1, [sp, #16]
        bl      ncclwatch_find_dlsym
        mov     x16, x0
        ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #32
        .cfi_restore 29
        .cfi_restore 30
        .cfi_adjust_cfa_offset -32
        br      x16
        .cfi_endproc
        .size   dlsym, .-dlsym
        .section .note.GNU-stack, "", %progbits
