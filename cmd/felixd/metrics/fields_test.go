package metrics

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"felix.local/felix/engine"
)

// notExported are fields of a store's statistics that are no metric, and why.
func notExported() map[string]string {
	return map[string]string{
		"Queue.Driver":  "felix_storage_backend_info has it, from the store's Backend",
		"Queue.Backend": "the same; of the counts by route it names the one that the queue's operations have",
	}
}

// Whatever a store counts, a scrape shows.
func TestEveryFieldOfAStoresStatisticsIsExported(t *testing.T) {
	without := notExported()
	seen := 0
	for _, field := range leaves(reflect.TypeFor[engine.StoreStats](), "", nil) {
		stats := engine.StoreStats{}
		stats.Queue.Backend = "ring"
		before := scraped(t, stats)
		set(reflect.ValueOf(&stats).Elem().FieldByIndex(field.index))
		shown := scraped(t, stats) != before
		if _, listed := without[field.name]; shown == listed {
			t.Errorf("%s: exported %v, listed as not exported %v", field.name, shown, listed)
		}
		delete(without, field.name)
		seen++
	}
	if len(without) > 0 || seen < 40 {
		t.Errorf("%d fields; none is called %v", seen, without)
	}
}

type leaf struct {
	name  string
	index []int
}

// leaves are the fields of a struct and of the structs in it.
func leaves(of reflect.Type, prefix string, index []int) (all []leaf) {
	for i := range of.NumField() {
		f := of.Field(i)
		at := append(index[:len(index):len(index)], i)
		if f.Type.Kind() == reflect.Struct {
			all = append(all, leaves(f.Type, prefix+f.Name+".", at)...)
		} else {
			all = append(all, leaf{prefix + f.Name, at})
		}
	}
	return all
}

// set gives a field a value other than its zero.
func set(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint64:
		v.SetUint(7)
	case reflect.String:
		v.SetString("other")
	case reflect.Array:
		set(v.Index(1))
	case reflect.Interface:
		v.Set(reflect.ValueOf(errors.New("lost")))
	default:
		panic(fmt.Sprintf("no value is known for a %v", v.Type()))
	}
}

func scraped(t *testing.T, stats engine.StoreStats) string {
	t.Helper()
	m := New()
	m.Attach(fakeStore{stats: stats})
	return strings.Join(scrape(t, m, "felix_storage_"), "\n")
}
