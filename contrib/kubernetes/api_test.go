// SPDX-License-Identifier: Apache-2.0

//go:build unix

package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// apiServer serves ReplicaSets, which can be listed, watched and updated, and no pods. The first
// element of each path is the name of the client.
type apiServer struct {
	mu      sync.Mutex
	sets    map[string]*apps.ReplicaSet
	version int
	changed chan struct{} // closed at the next change
	updates []string      // "client updates set"
}

func newAPIServer(t *testing.T) (a *apiServer, url string) {
	a = &apiServer{sets: map[string]*apps.ReplicaSet{}, changed: make(chan struct{})}
	s := httptest.NewServer(a)
	t.Cleanup(func() {
		s.CloseClientConnections() // ends watches
		s.Close()
	})
	return a, s.URL
}

// storeSet creates or replaces a set. a.mu must be held.
func (a *apiServer) storeSet(set *apps.ReplicaSet) {
	a.version++
	set.TypeMeta = meta.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}
	set.ResourceVersion = strconv.Itoa(a.version)
	a.sets[set.Name] = set
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *apiServer) createSet(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	set := &apps.ReplicaSet{ObjectMeta: meta.ObjectMeta{Name: name, Namespace: "default"}}
	set.Spec.Template.Spec.Containers = []core.Container{{Name: name}}
	a.storeSet(set)
}

// updatesOf returns the clients that have updated a set.
func (a *apiServer) updatesOf(name string) (clients []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, u := range a.updates {
		if client, ok := strings.CutSuffix(u, " updates "+name); ok {
			clients = append(clients, client)
		}
	}
	return clients
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	client, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	w.Header().Set("Content-Type", "application/json")
	reply := func(v any) { _ = json.NewEncoder(w).Encode(v) } // the client may be killed
	switch resources := path[strings.LastIndex(path, "/")+1:]; {
	case path == "api":
		reply(meta.APIVersions{Versions: []string{"v1"}})
	case path == "apis":
		v := meta.GroupVersionForDiscovery{GroupVersion: "apps/v1", Version: "v1"}
		reply(meta.APIGroupList{Groups: []meta.APIGroup{{
			Name: "apps", Versions: []meta.GroupVersionForDiscovery{v}, PreferredVersion: v,
		}}})
	case path == "api/v1":
		reply(resourcesOf("v1", "pods", "Pod"))
	case path == "apis/apps/v1":
		reply(resourcesOf("apps/v1", "replicasets", "ReplicaSet"))
	case r.URL.Query().Has("sendInitialEvents"): // then clients list first
		w.WriteHeader(http.StatusUnprocessableEntity)
		reply(meta.Status{Status: meta.StatusFailure, Reason: meta.StatusReasonInvalid, Code: 422})
	case r.URL.Query().Has("watch"):
		from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
		a.watchSets(w, r, from, resources == "replicasets")
	case resources == "pods":
		reply(core.PodList{ListMeta: meta.ListMeta{ResourceVersion: "0"}})
	case resources == "replicasets":
		reply(a.listSets())
	case r.Method == http.MethodPut:
		set := &apps.ReplicaSet{}
		body, _ := io.ReadAll(r.Body)
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, set); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if old := a.sets[set.Name]; old == nil || old.ResourceVersion != set.ResourceVersion {
			w.WriteHeader(http.StatusConflict)
			reply(meta.Status{Status: meta.StatusFailure, Reason: meta.StatusReasonConflict, Code: 409})
			return
		}
		a.updates = append(a.updates, fmt.Sprint(client, " updates ", set.Name))
		a.storeSet(set)
		reply(set)
	default:
		http.NotFound(w, r)
	}
}

func resourcesOf(version, name, kind string) meta.APIResourceList {
	return meta.APIResourceList{GroupVersion: version, APIResources: []meta.APIResource{
		{Name: name, Kind: kind, Namespaced: true, Verbs: meta.Verbs{"list", "watch", "update"}},
	}}
}

func (a *apiServer) listSets() (l apps.ReplicaSetList) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l.ResourceVersion = strconv.Itoa(a.version)
	for _, set := range a.sets {
		l.Items = append(l.Items, *set)
	}
	return l
}

// watchSets sends the sets that are later than a version, if any are wanted, until the client ends.
func (a *apiServer) watchSets(w http.ResponseWriter, r *http.Request, from int, wanted bool) {
	for {
		a.mu.Lock()
		last, changed := a.version, a.changed
		for _, set := range a.sets {
			if v, _ := strconv.Atoi(set.ResourceVersion); wanted && v > from {
				_ = json.NewEncoder(w).Encode(meta.WatchEvent{
					Type: "MODIFIED", Object: runtime.RawExtension{Object: set},
				})
			}
		}
		a.mu.Unlock()
		from = last
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}
