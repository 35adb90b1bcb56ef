// dlsym(handle, name): "nccl...", but not "ncclw...", goes to ncclwatch_answer, "cuM..." and "cuG..." to ncclwatch_answer_cuda, which may
// leave it to the C library (-1). Everything else, and RTLD_NEXT, is a tail jump to the C library's dlsym with all
// registers as they came, so that it sees our caller as its own.
        .text
        .globl  dlsym
        .type   dlsym, @function
        .p2align 4
dlsym:
        .cfi_startproc
        endbr64
        cmpq    $-1, %rdi               // RTLD_NEXT
        je      .Lpass
        testq   %rsi, %rsi
        je      .Lpass
        cmpb    $'n', (%rsi)            // byte by byte: the name may end before a word of it is read
        jne     .Lcuda
        cmpb    $'c', 1(%rsi)
        jne     .Lpass
        cmpb    $'c', 2(%rsi)
        jne     .Lpass
        cmpb    $'l', 3(%rsi)
        jne     .Lpass
        cmpb    $'w', 4(%rsi)           // our own functions
        je      .Lpass
        jmp     ncclwatch_answer
.Lcuda:
        cmpb    $'c', (%rsi)
        jne     .Lpass
        cmpb    $'u', 1(%rsi)
        jne     .Lpass
        cmpb    $'M', 2(%rsi)
        je      .Lask
        cmpb    $'G', 2(%rsi)
        jne     .Lpass
.Lask:
        movq    (%rsp), %rdx            // the caller
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        call    ncclwatch_answer_cuda
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        cmpq    $-1, %rax
        je      .Lpass
        ret
.Lpass:
        movq    ncclwatch_real_dlsym(%rip), %rax
        testq   %rax, %rax
        je      .Lfind
        jmp     *%rax
.Lfind:
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        call    ncclwatch_find_dlsym
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        jmp     *%rax
        .cfi_endproc
        .size   dlsym, .-dlsym
        .section .note.GNU-stack, "", @progbits

        .section .note.gnu.property, "a"
        .p2align 3
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000002, 4, 3, 0     // GNU_PROPERTY_X86_FEATURE_1_AND: IBT, SHSTK
