// Small texts of HTTP.
#pragma once

#include <string>
#include <string_view>

namespace beamline {

// "Not Found"; "Error" of a status without one here.
std::string_view ReasonPhrase(int status);

// The path of a request's target: without the query, and of an absolute target ("http://host/a")
// without what goes before it.
std::string PathOf(std::string_view target);

// The text that a path's piece stands for: "a%20b" is "a b". What is no escape stays as it is.
std::string Unescape(std::string_view text);

// Whether the two are the same but for case.
bool IsSameWord(std::string_view text, std::string_view word);

// The client's request id where it is 1 to 256 visible characters of ASCII, else one made up.
std::string UsableRequestId(std::string_view given);

// An address as gRPC names its peers, without the port: "ipv4:10.0.0.7", "ipv6:%5B::1%5D".
std::string HostText(std::string_view address, bool is_v6);

}  // namespace beamline
