module beamline.example

go 1.24.0

// Newer ones do as well. The tests build it with the libraries of Debian 12 instead, which are older.
require (
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260401024825-9d38bb4040a9
	google.golang.org/grpc v1.80.0
	google.golang.org/protobuf v1.36.11
)
