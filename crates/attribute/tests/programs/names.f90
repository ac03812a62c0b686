! Allocations and static storage of a Fortran program; "name:" and "global:" comments say what each is called.
module fields
  implicit none
  type :: mesh
    real(8), allocatable :: cells(:)
  end type mesh
  real(8), allocatable :: grid(:, :)
  real(8), pointer :: view(:)
  real(8) :: table(20000) ! global: fields::table
contains
  subroutine prepare(n)
    integer, intent(in) :: n
    allocate (grid(n, n)) ! name: grid
    grid = 1
  end subroutine prepare
end module fields

program solver
  use fields
  implicit none
  real(8), allocatable :: work(:), other(:), copied(:)
  real(8), save :: local(30000) ! global: solver::local
  real(8) :: shared(40000)
  common /block/ shared ! global: /block/
  type(mesh) :: meshes(2)
  integer :: status

  call prepare(200)
  allocate (work(100001), & ! name: work
            stat=status)
  allocate (meshes(status + 1)%cells(100002)) ! name: meshes[]%cells
  copied = work ! name: copied
  IF (status == 0) ALLOCATE (REAL(8) :: other(100003)) ! name: other
  call scratch(100004)
  allocate (view(100005)) ! name: view
  work = 1; meshes(1)%cells = 2; other = 3; table = 4; shared = 5; local = 6; view = 7
  print *, sum(grid) + sum(work) + sum(meshes(1)%cells) + sum(copied) + sum(other)
  print *, sum(table) + sum(shared) + sum(local) + sum(view)
contains
  subroutine scratch(n)
    integer, intent(in) :: n
    real(8), allocatable :: inner(:)
    allocate (inner(n), source=1.5d0) ! name: inner
    print *, sum(inner)
  end subroutine scratch
end program solver
