(** Multicast over a cluster: the bytes of one full barrier come from several issuers.

    M CTAs, one stage in each. Of every tile each CTA issues one slice, which lands in all of them,
    in any order. The full barrier of a CTA completes a phase with every [K] slices (M where it is
    right); an issuer waits until all CTAs have released the tile before ([own]: only its own has,
    which is wrong). *)

From Coq Require Import Arith Lia Bool.
From Titan Require Import Count.

Section Multicast.
Variables M K : nat.
Variable own : bool.

Record cluster := {
  sent : nat -> nat;            (* of an issuer: tiles of which it has issued its slice *)
  got : nat -> nat -> nat;      (* of a CTA and an issuer: slices that have landed *)
  full : nat -> nat;            (* of a CTA: phases complete, *)
  part : nat -> nat;            (* slices counted in the phase that is open, *)
  read : nat -> nat             (* tiles that have been read and released *)
}.

Definition counted (s : cluster) c i : cluster :=
  {| sent := sent s; got := upd (got s) c (upd (got s c) i (S (got s c i)));
     full := if S (part s c) =? K then upd (full s) c (S (full s c)) else full s;
     part := upd (part s) c (if S (part s c) =? K then 0 else S (part s c));
     read := read s |}.

Inductive moves (s : cluster) : cluster -> Prop :=
| issues i : i < M -> (forall c, c < M -> own = false \/ c = i -> sent s i <= read s c) ->
    moves s {| sent := upd (sent s) i (S (sent s i)); got := got s; full := full s;
               part := part s; read := read s |}
| lands c i : c < M -> i < M -> got s c i < sent s i -> moves s (counted s c i)
| reads_tile c : c < M -> read s c < full s c ->
    moves s {| sent := sent s; got := got s; full := full s; part := part s;
               read := upd (read s) c (S (read s c)) |}.

Inductive reached : cluster -> Prop :=
| at_first : reached {| sent := fun _ => 0; got := fun _ _ => 0; full := fun _ => 0;
                        part := fun _ => 0; read := fun _ => 0 |}
| and_on s t : reached s -> moves s t -> reached t.

(** A CTA may read a tile of which a slice has not landed (TTN203). *)
Definition incomplete (s : cluster) :=
  exists c i, c < M /\ i < M /\ read s c < full s c /\ got s c i <= read s c.

(** A slice is in flight to a stage that still holds the tile before (TTN202). *)
Definition overwrites (s : cluster) :=
  exists c i, c < M /\ i < M /\ got s c i < sent s i /\ read s c < got s c i.

(** Bytes can come for the next phase, and no wait has passed for the last one (TTN216). *)
Definition unobserved (s : cluster) :=
  exists c i, c < M /\ i < M /\ got s c i < sent s i /\ read s c < full s c.

Hypothesis M_pos : M >= 1.
Hypothesis all_slices : K = M.
Hypothesis all_release : own = false.

Record sound (s : cluster) : Prop := {
  o_low c i : c < M -> i < M -> full s c <= got s c i;
  o_sent c i : c < M -> i < M -> got s c i <= sent s i;
  o_ahead c i : c < M -> i < M -> sent s i <= read s c + 1;
  o_read c : c < M -> read s c <= full s c;
  o_sum c : c < M -> sum M (got s c) = M * full s c + part s c;
  o_part c : c < M -> part s c < M
}.

Lemma sound_counted s c i : sound s -> c < M -> i < M -> got s c i < sent s i ->
  sound (counted s c i).
Proof.
  intros [H1 H2 H3 H4 H5 H6] Hc Hi L. unfold counted. rewrite all_slices.
  set (g := upd (got s c) i (S (got s c i))).
  assert (Hs : sum M g = M * full s c + S (part s c)).
  { pose proof (sum_change M (got s c) g i Hi ltac:(intros; apply upd_other; auto)) as Hs.
    unfold g in Hs at 2. rewrite upd_same in Hs. specialize (H5 c Hc). lia. }
  assert (Hh : forall j, j < M -> g j <= full s c + 1 /\ g j <= sent s j /\ full s c <= g j).
  { intros j Hj. specialize (H1 c j Hc Hj). specialize (H2 c j Hc Hj). specialize (H3 c j Hc Hj).
    specialize (H4 c Hc). unfold g, upd. destruct (Nat.eq_dec i j) as [<-|]; lia. }
  assert (Hf : S (part s c) = M -> forall j, j < M -> g j = full s c + 1).
  { intros E. apply sum_full; [apply Hh|]. nia. }
  specialize (H6 c Hc) as P.
  split; cbn [sent got full part read]; intros d; try intros j Hd Hj; try intros Hd;
    destruct (Nat.eqb_spec (S (part s c)) M) as [E|E];
    unfold upd; destruct (Nat.eq_dec c d) as [<-|n]; fold g; auto; try lia.
  all: try (specialize (Hf E j Hj); lia).
  all: try (apply Hh; assumption).
  all: specialize (H4 c Hc); lia.
Qed.

Lemma sound_reached s : reached s -> sound s.
Proof.
  induction 1 as [|s t _ I Mv].
  - split; cbn; intros; try lia. rewrite sum_zero by easy. lia.
  - destruct Mv as [i Hi W|c i Hc Hi L|c Hc L]; [|now apply sound_counted|];
      destruct I as [H1 H2 H3 H4 H5 H6]; split; cbn [sent got full part read]; auto.
    + intros c j Hc Hj. specialize (H2 c j Hc Hj). unfold upd.
      destruct (Nat.eq_dec i j) as [<-|]; lia.
    + intros c j Hc Hj. specialize (H3 c j Hc Hj). specialize (W c Hc (or_introl all_release)).
      unfold upd. destruct (Nat.eq_dec i j) as [<-|]; lia.
    + intros d j Hd Hj. specialize (H3 d j Hd Hj). unfold upd.
      destruct (Nat.eq_dec c d) as [<-|]; lia.
    + intros d Hd. specialize (H4 d Hd). unfold upd. destruct (Nat.eq_dec c d) as [<-|]; lia.
Qed.

Theorem multicast_safe s : reached s -> ~ incomplete s /\ ~ overwrites s /\ ~ unobserved s.
Proof.
  intros R. destruct (sound_reached s R) as [H1 H2 H3 H4 H5 H6].
  repeat split; intros (c & i & Hc & Hi & A & B);
    specialize (H1 c i Hc Hi); specialize (H3 c i Hc Hi); specialize (H4 c Hc); lia.
Qed.

Theorem multicast_goes_on s : reached s -> exists t, moves s t.
Proof.
  intros R. destruct (sound_reached s R) as [H1 H2 H3 H4 H5 H6].
  destruct (search M (fun c => read s c < full s c)) as [[c [Hc L]]|No].
  { intros c Hc. apply lt_dec. }
  { eexists. apply reads_tile with (c := c); auto. }
  destruct (least M (read s) ltac:(lia)) as [c [Hc Hl]].
  destruct (sum_behind M (got s c) (full s c)) as [i [Hi Lg]].
  { rewrite (H5 c Hc). specialize (H6 c Hc). nia. }
  destruct (lt_dec (got s c i) (sent s i)) as [L|L].
  - eexists. apply lands with (c := c) (i := i); auto.
  - eexists. apply issues with (i := i); [easy|]. intros d Hd _.
    specialize (Hl d Hd). specialize (No c Hc). specialize (H4 c Hc). lia.
Qed.
End Multicast.

(** Where an issuer waits for its own CTA only, its next slice meets a tile that another CTA holds. *)
Theorem own_release_overwrites :
  exists s, reached 2 2 true s /\ overwrites 2 s /\ unobserved 2 s.
Proof.
  eexists. split.
  - eapply and_on; [eapply and_on; [eapply and_on; [eapply and_on; [eapply and_on; [eapply and_on;
      [eapply and_on; [eapply and_on; [apply at_first|]|]|]|]|]|]|]|].
    + apply issues with (i := 0); [lia|cbn; intros; lia].
    + apply issues with (i := 1); [lia|cbn; intros; lia].
    + apply lands with (c := 0) (i := 0); cbn; lia.
    + apply lands with (c := 0) (i := 1); cbn; lia.
    + apply lands with (c := 1) (i := 0); cbn; lia.
    + apply lands with (c := 1) (i := 1); cbn; lia.
    + apply reads_tile with (c := 0); cbn; lia.
    + apply issues with (i := 0); [lia|]. intros c _ [E| ->]; [discriminate|cbn; lia].
  - split; exists 1, 0; cbn; lia.
Qed.

(** Where the bytes of one issuer only are expected, a tile is read before all of it has landed. *)
Theorem one_slice_short_reads_early : exists s, reached 2 1 false s /\ incomplete 2 s.
Proof.
  eexists. split.
  - eapply and_on; [eapply and_on; [apply at_first|]|].
    + apply issues with (i := 0); [lia|cbn; intros; lia].
    + apply lands with (c := 0) (i := 0); cbn; lia.
  - exists 0, 1. cbn. lia.
Qed.
