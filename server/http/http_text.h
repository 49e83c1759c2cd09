// Small functions for HTTP texts.
#pragma once

#include <string>
#include <string_view>

namespace beamline {

// "Not Found"; "Error" for a status without a phrase here.
std::string_view ReasonPhrase(int status);

// The path of a request's target: without the query, and without scheme and host of an absolute
// target ("http://host/a").
std::string PathOf(std::string_view target);

// Decodes percent escapes: "a%20b" becomes "a b". Invalid escapes stay.
std::string Unescape(std::string_view text);

// True if both are equal, ignoring case.
bool IsSameWord(std::string_view text, std::string_view word);

// The client's request id if it is 1 to 256 visible ASCII characters, else a generated one.
std::string UsableRequestId(std::string_view given);

// An address without its port, as gRPC writes peers: "ipv4:10.0.0.7", "ipv6:%5B::1%5D".
std::string HostText(std::string_view address, bool is_v6);

}  // namespace beamline
