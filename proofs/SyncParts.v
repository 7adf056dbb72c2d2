(** Steps that act on one part of the state: what several agents do to one barrier, queue or pool.

    SyncFrames.v has steps of which neither changes what the other sees. Sums are not like that: two arrivals see and
    change one count. Here a step *acts* on some locations: it sees of them no more than what the action makes of their content.
    Two steps that act on one location lead in either order to the same state if the two actions do, at the content that is there. *)

From Coq Require Import Bool ZArith Lia List.
From Titan Require Import Expression Sync SyncShift SyncFrames.
Import ListNotations.
Open Scope Z_scope.
Opaque local_steps_max.

Section Parts.
Variable p : program.
Notation agree := (agree p).
Notation near := (near p).
Notation moved := (moved p).
Notation frame := (frame p).
Notation reads := (reads p).

(** ** The content of a location *)

Inductive part :=
| PPlace (x : option position) | PNumber (x : option Z) | PBarrier (x : option mbarrier) | PNamed (x : option named)
| PContent (x : option (Z * list Z * bool)) | PMarks (x : option marks) | PFlag (x : option bool) | PQueue (x : option groups)
| PFlights (x : list flight) | PNone.

Definition part_at (l : loc) (s : state) : part :=
  match l with
  | AtPlace a => PPlace (nth_error (st_positions s) a)
  | AtIssued a => PNumber (nth_error (st_issued s) a)
  | AtBarrier k => PBarrier (find same_key k (st_barriers s))
  | AtNamed k => PNamed (find same_key k (st_named s))
  | AtContent c => PContent (option_map core (find same_key c (st_cells s)))
  | AtMarks c => PMarks (option_map co_marks (find same_key c (st_cells s)))
  | AtWriter c n => PFlag (option_map (fun h => inside n (co_writers h)) (find same_key c (st_cells s)))
  | AtReader c n => PFlag (option_map (fun h => inside n (co_readers h)) (find same_key c (st_cells s)))
  | AtQueue k => PQueue (find same_pair k (st_queues s))
  | AtFlight a n => PFlights (filter (is_mark a n) (st_free s))
  | AtPool n => PNumber (nth_error (st_pools s) n)
  | _ => PNone
  end.

Lemma part_agree l s t : own l = true -> part_at l s = part_at l t <-> agree l s t.
Proof. destruct l; cbn; try easy; intros _; split; congruence. Qed.

Lemma flight_dec (x y : flight) : {x = y} + {x <> y}.
Proof. repeat decide equality. Defined.
Lemma part_dec (x y : part) : {x = y} + {x <> y}.
Proof. repeat decide equality. Defined.

(** ** Actions *)

(** None: nothing is said of this content. *)
Definition action : Type := part -> option (outcome part).
Definition acts : Type := list (loc * action).

Definition matched {A} (x y : option (outcome A)) : Prop :=
  match x, y with
  | Some (Done _), Some (Done _) | Some Undefined, Some Undefined => True
  | Some (Faulty k l), Some (Faulty k' l') => k = k' /\ l = l'
  | _, _ => False
  end.

(** Of a state elsewhere only the locations that make it up count. *)
Definition moved_own (W : list loc) (s t : state) : Prop := shape s t /\ forall l, own l = true -> ~ In l W -> agree l s t.
Lemma moved_is_own W s t : moved W s t -> moved_own W s t.
Proof. intros [S M]. split; auto. Qed.
Lemma moved_own_more W W' s t : incl W W' -> moved_own W s t -> moved_own W' s t.
Proof. intros J [S Y]. split; [easy|]. intros l O L. apply Y; [easy|]. intros K. now apply L, J. Qed.
Lemma moved_own_trans W s t u : moved_own W s t -> moved_own W t u -> moved_own W s u.
Proof. intros [S H] [T K]. split; [now apply shape_trans with t|]. intros l O L. apply agree_trans with t; auto. Qed.

(** What [f] sees is in [R], but for the locations of [A], which it sees and changes as the actions say. *)
Definition acting (A : acts) (R F W : list loc) (s : state) (f : state -> outcome state) : Prop :=
  forall t, near R s t -> (forall l r, In (l, r) A -> matched (r (part_at l s)) (r (part_at l t))) ->
  match f s, f t with
  | Done s', Done t' => moved W s s' /\ moved_own W t t' /\ near F s' t' /\
      forall l r, In (l, r) A -> r (part_at l s) = Some (Done (part_at l s')) /\ r (part_at l t) = Some (Done (part_at l t'))
  | Faulty k l, Faulty k' l' => k = k' /\ l = l'
  | Undefined, Undefined => True
  | _, _ => False
  end.

Lemma acting_frame R F W s f : frame R F W s f -> acting [] R F W s f.
Proof. intros H t N _. specialize (H t N). destruct (f s), (f t); try easy.
  destruct H as (A & B & C). split; [easy|]. split; [now apply moved_is_own|easy]. Qed.

Lemma acting_same A R F W s f g : (forall t, f t = g t) -> acting A R F W s f -> acting A R F W s g.
Proof. intros E H t N M. rewrite <- !E. now apply H. Qed.

Lemma acting_less A R F F' W W' s f : incl F' F -> incl W W' -> acting A R F W s f -> acting A R F' W' s f.
Proof.
  intros I J H t N M. specialize (H t N M). destruct (f s), (f t); try easy.
  destruct H as (B & C & D & E). assert (X : forall s t, moved W s t -> moved W' s t).
  { intros x y [S Y]. split; [easy|]. intros l L. apply Y. intros K. now apply L, J. }
  split; [now apply X|]. split; [now apply moved_own_more with W|]. split; [now apply near_less with F|easy].
Qed.

Lemma moved_more W W' s t : incl W W' -> moved W s t -> moved W' s t.
Proof. intros J [S Y]. split; [easy|]. intros l L. apply Y. intros K. now apply L, J. Qed.

Lemma moved_part W l s t : moved_own W s t -> own l = true -> ~ In l W -> part_at l t = part_at l s.
Proof. intros [_ M] O N. symmetry. apply part_agree; auto. Qed.

Definition held (A : acts) : Prop := forall l r, In (l, r) A -> own l = true.

Lemma acting_bind A B R M F W V s f g : acting A R M W s f -> (forall s', f s = Done s' -> moved W s s' -> acting B M F V s' g) ->
  held A -> held B -> (forall l, In l (map fst A) -> ~ In l V) -> (forall l, In l (map fst B) -> ~ In l W) ->
  acting (A ++ B) R F (W ++ V) s (fun t => bind (f t) g).
Proof.
  intros Hf Hg OA OB DA DB t N Q.
  assert (QA : forall l r, In (l, r) A -> matched (r (part_at l s)) (r (part_at l t))) by (intros l r I; apply Q, in_or_app; now left).
  specialize (Hf t N QA). destruct (f s) as [s'| |] eqn:E, (f t) as [t'| |]; try easy. destruct Hf as (Ms & Mt & N' & P). cbn [bind].
  assert (KB : forall l r, In (l, r) B -> part_at l s' = part_at l s /\ part_at l t' = part_at l t).
  { intros l r I. assert (J : In l (map fst B)) by now apply (in_map fst B (l, r)).
    split; apply (moved_part W); try easy; try (now apply moved_is_own); try (now apply DB); now apply (OB l r). }
  specialize (Hg s' eq_refl Ms t' N'). destruct (g s') as [s''| |], (g t') as [t''| |];
    (destruct Hg as (Ms' & Mt' & N'' & P') || (apply Hg; intros l r I; destruct (KB l r I) as [-> ->]; apply Q, in_or_app; now right) || idtac);
    try (intros l r I; destruct (KB l r I) as [-> ->]; apply Q, in_or_app; now right).
  split; [apply (moved_trans p _ s s'); [apply (moved_more W)|apply (moved_more V)]; try easy; intros l L; apply in_or_app; auto|].
  split; [apply (moved_own_trans _ t t'); [apply (moved_own_more W)|apply (moved_own_more V)]; try easy; intros l L; apply in_or_app; auto|].
  split; [easy|]. intros l r I. apply in_app_or in I as [I|I].
  - destruct (P l r I) as [-> ->]. assert (J : In l (map fst A)) by now apply (in_map fst A (l, r)).
    rewrite (moved_part V l s' s''), (moved_part V l t' t''); auto; try (now apply moved_is_own); now apply (OA l r).
  - destruct (KB l r I) as [E1 E2]. rewrite <- E1, <- E2. now apply P'.
Qed.

Lemma acting_read {X} A R F W s (r : state -> outcome X) g : reads R s r ->
  (forall a, r s = Done a -> acting A R F W s (g a)) -> acting A R F W s (fun t => bind (r t) (fun a => g a t)).
Proof.
  intros Hr Hg t N Q. rewrite (Hr t N). destruct (r s) as [a| |]; cbn [bind]; [|easy..]. now apply Hg.
Qed.

(** ** What two such steps do in either order *)

Definition same_fault (k k' : fault_kind) (l l' : list nat) : bool :=
  (if (ltac:(decide equality) : {k = k'} + {k <> k'}) then true else false) && (if list_eq_dec Nat.eq_dec l l' then true else false).

(** Whether two actions may be done in either order at this content. *)
Definition either (r q : action) (v : part) : bool :=
  match r v, q v with
  | Some (Done w), Some (Done u) =>
    match q w, r u with
    | Some (Done x), Some (Done y) => if part_dec x y then true else false
    | _, _ => false
    end
  | Some (Done w), Some (Faulty k l) => match q w with Some (Faulty k' l') => same_fault k k' l l' | _ => false end
  | Some (Faulty k l), Some (Done u) => match r u with Some (Faulty k' l') => same_fault k k' l l' | _ => false end
  | Some (Faulty _ _), Some (Faulty _ _) => true
  | _, _ => false
  end.

Lemma same_fault_eq k k' l l' : same_fault k k' l l' = true -> k = k' /\ l = l'.
Proof.
  unfold same_fault. rewrite andb_true_iff. intros [A B]. split.
  - match type of A with (if ?X then _ else _) = _ => now destruct X end.
  - now destruct (list_eq_dec Nat.eq_dec l l').
Qed.

(** The second action behind the first is as without it. *)
Lemma either_matched r q v w : either r q v = true -> r v = Some (Done w) -> matched (q v) (q w).
Proof.
  unfold either. intros H E. rewrite E in H. destruct (q v) as [[u|k l|]|]; try easy.
  - destruct (q w) as [[x| |]|]; easy.
  - destruct (q w) as [[x|k' l'|]|]; try easy. now apply same_fault_eq.
Qed.

Lemma either_same r q v w u : either r q v = true -> r v = Some (Done w) -> q v = Some (Done u) ->
  exists x, q w = Some (Done x) /\ r u = Some (Done x).
Proof.
  unfold either. intros H E F. rewrite E, F in H. destruct (q w) as [[x| |]|], (r u) as [[y| |]|]; try easy.
  destruct (part_dec x y) as [->|]; [|easy]. now exists y.
Qed.

(** What one of the two asks of the other: its actions say something here, and who changes a location of them acts there, too. *)
Definition meets (A B : acts) (W : list loc) (s : state) : Prop :=
  forall l q, In (l, q) B -> matched (q (part_at l s)) (q (part_at l s)) /\
    (In l W -> exists r, In (l, r) A /\ either r q (part_at l s) = true).

Lemma matched_here A s : (forall l r, In (l, r) A -> matched (r (part_at l s)) (r (part_at l s))) -> forall R F W f t,
  acting A R F W s f -> f s = Done t -> moved W s t /\ forall l r, In (l, r) A -> r (part_at l s) = Some (Done (part_at l t)).
Proof.
  intros M R F W f t H E. specialize (H s (near_refl p R s) M). rewrite E in H. split; [apply H|].
  intros l r I. now apply (proj2 (proj2 (proj2 H)) l r I).
Qed.

Lemma meets_behind A B R F W s t f : acting A R F W s f -> f s = Done t -> held B ->
  (forall l r, In (l, r) A -> matched (r (part_at l s)) (r (part_at l s))) -> meets A B W s ->
  forall l q, In (l, q) B -> matched (q (part_at l s)) (q (part_at l t)).
Proof.
  intros H E O M K l q I. destruct (K l q I) as [here there]. destruct (matched_here A s M R F W f t H E) as [V P].
  destruct (in_dec loc_dec l W) as [L|L].
  - destruct (there L) as (r & J & X). apply (either_matched r q); [easy|now apply P].
  - now rewrite (moved_part W l s t (moved_is_own _ _ _ V) (O l q I) L).
Qed.

Definition kept_or_acted (W F : list loc) (A : acts) : Prop := forall l, In l W -> own l = true -> In l F \/ In l (map fst A).

Lemma named_act (A : acts) l : In l (map fst A) -> exists r, In (l, r) A.
Proof. intros I. apply in_map_iff in I as ([h r] & <- & I). now exists r. Qed.

Lemma acting_commute A B R F W R' F' W' s t u f g : acting A R F W s f -> acting B R' F' W' s g -> held A -> held B ->
  kept_or_acted W F A -> kept_or_acted W' F' B -> incl F R -> incl F' R' -> apart W R' -> apart W' R -> meets A B W s -> meets B A W' s ->
  f s = Done t -> g s = Done u ->
  exists v w, g t = Done v /\ f u = Done w /\ alike p v w.
Proof.
  intros Hf Hg OA OB C C' I I' D D' K K' Ft Gu.
  assert (MA : forall l r, In (l, r) A -> matched (r (part_at l s)) (r (part_at l s))) by (intros l r J; now apply K').
  assert (MB : forall l r, In (l, r) B -> matched (r (part_at l s)) (r (part_at l s))) by (intros l r J; now apply K).
  destruct (matched_here A s MA R F W f t Hf Ft) as [Ms Ps]. destruct (matched_here B s MB R' F' W' g u Hg Gu) as [Mu Pu].
  pose proof (Hf u (moved_near p W' R s u Mu D') (meets_behind B A R' F' W' s u g Hg Gu OA MB K')) as X.
  pose proof (Hg t (moved_near p W R' s t Ms D) (meets_behind A B R F W s t f Hf Ft OB MA K)) as Y.
  rewrite Ft in X. rewrite Gu in Y. destruct (f u) as [w| |]; [|easy..]. destruct (g t) as [v| |]; [|easy..].
  destruct X as (_ & Mw & Nw & Pw). destruct Y as (_ & Mv & Nv & Pv). exists v, w. split; [easy|]. split; [easy|].
  split.
  { apply shape_trans with t; [apply shape_sym, Mv|]. apply Nw. }
  intros l O. apply part_agree; [easy|].
  destruct (in_dec loc_dec l (map fst A)) as [LA|LA]; [apply named_act in LA as (r & LA)|];
    (destruct (in_dec loc_dec l (map fst B)) as [LB|LB]; [apply named_act in LB as (q & LB)|]).
  - pose proof (Ps l r LA) as E1. pose proof (Pu l q LB) as E2. pose proof (proj2 (Pw l r LA)) as E3. pose proof (proj2 (Pv l q LB)) as E4.
    destruct (in_dec loc_dec l W) as [L|L].
    + destruct (proj2 (K l q LB) L) as (r' & LA' & E). pose proof (Ps l r' LA') as E1'. pose proof (proj2 (Pw l r' LA')) as E3'.
      destruct (either_same r' q _ _ _ E E1' E2) as (x & X1 & X2). congruence.
    + pose proof (moved_part W l s t (moved_is_own _ _ _ Ms) O L) as E5. pose proof (moved_part W l u w Mw O L) as E6. congruence.
  - assert (L : ~ In l W').
    { intros L. destruct (proj2 (K' l r LA) L) as (q & J & _). apply LB. now apply (in_map fst B (l, q)). }
    pose proof (moved_part W' l s u (moved_is_own _ _ _ Mu) O L) as E5. pose proof (moved_part W' l t v Mv O L) as E6.
    pose proof (Ps l r LA). pose proof (proj2 (Pw l r LA)). congruence.
  - assert (L : ~ In l W).
    { intros L. destruct (proj2 (K l q LB) L) as (r & J & _). apply LA. now apply (in_map fst A (l, r)). }
    pose proof (moved_part W l s t (moved_is_own _ _ _ Ms) O L) as E5. pose proof (moved_part W l u w Mw O L) as E6.
    pose proof (Pu l q LB). pose proof (proj2 (Pv l q LB)). congruence.
  - apply part_agree; [easy|]. destruct (in_dec loc_dec l W) as [L|L].
    + destruct (C l L O) as [J|J]; [|easy]. assert (L' : ~ In l W') by (intros J'; now apply (D' l J'), I).
      apply agree_trans with t; [now apply agree_sym, Mv|]. apply Nw, J.
    + destruct (in_dec loc_dec l W') as [L'|L'].
      * destruct (C' l L' O) as [J|J]; [|easy]. apply agree_trans with u; [apply agree_sym, Nv, J|]. now apply Mw.
      * apply agree_trans with t; [now apply agree_sym, Mv|]. apply agree_trans with s; [apply agree_sym, Ms, L|].
        apply agree_trans with u; [apply Mu, L'|now apply Mw].
Qed.

Lemma acting_fault A B R F W R' F' W' s t f g k l : acting A R F W s f -> acting B R' F' W' s g -> held B ->
  (forall l r, In (l, r) A -> matched (r (part_at l s)) (r (part_at l s))) -> apart W R' -> meets A B W s ->
  f s = Done t -> g s = Faulty k l -> g t = Faulty k l.
Proof.
  intros Hf Hg OB MA D K Ft Gs. destruct (matched_here A s MA R F W f t Hf Ft) as [Ms _].
  pose proof (Hg t (moved_near p W R' s t Ms D) (meets_behind A B R F W s t f Hf Ft OB MA K)) as Y.
  rewrite Gs in Y. destruct (g t) as [| k' l'|]; try easy. destruct Y as [<- <-]. easy.
Qed.
End Parts.
