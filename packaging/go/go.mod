// Starts an installed Orrery server in tests.
module github.com/orrery-db/orrery/packaging/go

go 1.21
