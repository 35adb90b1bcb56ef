program fortran_use_mpi_f08
  use mpi_f08
  implicit none
  type(MPI_Request) :: requests(2)
  type(MPI_Status) :: status
  include 'body.inc'
end program
