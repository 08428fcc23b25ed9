package httpapi

import (
	"mime"
	"net/http"
	"strings"
)

// The media types of records.
const (
	mediaNDJSON = "application/x-ndjson"
	mediaEvents = "text/event-stream"
	mediaBytes  = "application/octet-stream"
)

// choose gives the first of the accepted media types that is offered; the first one
// offered where anything goes. Weights are not looked at beyond "q=0".
func choose(r *http.Request, offered ...string) (string, error) {
	accepted := r.Header.Values("Accept")
	if len(accepted) == 0 {
		return offered[0], nil
	}
	for part := range strings.SplitSeq(strings.Join(accepted, ","), ",") {
		media, params, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil || params["q"] == "0" {
			continue
		}
		for _, offer := range offered {
			if media == offer || matches(media, offer) {
				return offer, nil
			}
		}
	}
	return "", notAcceptable(strings.Join(offered, " or "))
}

// matches says that a range such as text/* covers a media type.
func matches(accepted, offer string) bool {
	if accepted == "*/*" {
		return true
	}
	kind, isRange := strings.CutSuffix(accepted, "/*")
	return isRange && strings.HasPrefix(offer, kind+"/")
}

// mediaType is the Content-Type without its parameters, "" when there is none.
func mediaType(r *http.Request) (string, error) {
	text := r.Header.Get("Content-Type")
	if text == "" {
		return "", nil
	}
	media, _, err := mime.ParseMediaType(text)
	if err != nil {
		return "", unsupportedMedia("the Content-Type cannot be read", "send a valid one, or none")
	}
	return media, nil
}

// plainBody refuses bodies that are packed in a way the server would store as it is.
func plainBody(r *http.Request) error {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return unsupportedMedia("the body has the Content-Encoding "+short(encoding), "send it as it is")
	}
	return nil
}
