program fortran_mpifh
  implicit none
  include 'mpif.h'
  integer :: requests(2), status(MPI_STATUS_SIZE)
  include 'body.inc'
end program
